from slidestat.client.client import Client as Client
