"""How fast it is, and against which limit: every time beside what the machine could do in the same minute."""
