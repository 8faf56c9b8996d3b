"""For those who write backends and hosts: the suites that ours pass, to run on yours. Needs pytest."""
