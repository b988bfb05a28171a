"""What every client of the brokers shares: security, connections, reading and producing."""
