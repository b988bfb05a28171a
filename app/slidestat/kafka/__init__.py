"""The parts that every client of the brokers shares: security, connections, reading, producing."""
