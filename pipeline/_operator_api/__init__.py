"""What an implementation of an operator is given and what it returns. Contributors read this first."""
