"""Three ways of "DynamoDB Write Concurrency In Python" (Jamie Hargreaves, 2022).

As in the article, books with author, title, published date and ISBN are written with one item per
request, into one table per way. `synchronous` puts one book after the other, `threaded` uses the
event loop's thread pool, `asynchronous` signs requests itself and sends them with aiohttp. One
client or session is created outside the loop.
"""
