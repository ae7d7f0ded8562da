"""How much of the code the tests run, and which changes of it they notice."""
