"""Own capture from Python bytecode: the frame hook's callback, the symbolic interpreter, guards and graph breaks."""
