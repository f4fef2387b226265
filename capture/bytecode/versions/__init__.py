"""What differs between the bytecodes of CPython's versions: one module for each."""
