"""Small tools of the engines: process trees, sockets, copying and rolling back files, image files."""
