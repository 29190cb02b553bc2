"""What all tests share."""

from hypothesis import settings

# Machines that run tests are busy; how long an example takes says nothing.
settings.register_profile("assay", deadline=None)
settings.load_profile("assay")
