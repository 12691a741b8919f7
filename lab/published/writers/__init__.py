"""The three ways of "DynamoDB Write Concurrency In Python" (Jamie Hargreaves, 2022).

As described there: books with author, title, published date and ISBN, one item a request, into one
table for each way. `synchronous` puts one book after the other, `threaded` uses the event loop's
thread pool, `asynchronous` signs requests itself and sends them with aiohttp. One client, or one
session, is made outside of the loop.
"""
