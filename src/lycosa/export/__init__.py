"""Export pages: a library by language and day, archives, mirrors, bulk loading.

A file appears completely or not at all. Equal input gives equal bytes.
"""
