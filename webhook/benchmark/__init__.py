"""How long reviews take, beside a server that always allows: measuring, keeping and comparing. Servers are started elsewhere."""
