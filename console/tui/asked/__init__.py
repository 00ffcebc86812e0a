"""What is asked for beside the snapshot, as tables, forms and steps. Pure: answers in, cells out."""
