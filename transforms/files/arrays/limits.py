"""What arrays may be, apart from what reads them: a command's help imports no NumPy."""

# What tf.io.decode_raw reads, by NumPy's names.
REAL = ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "bool")
ELEMENTS = (*REAL, "complex64", "complex128")
MAX_DIMENSIONS = 32  # of NumPy before 2.0
