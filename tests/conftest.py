"""What holds for every test: property tests are judged by what they find, never by how long one example took."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
