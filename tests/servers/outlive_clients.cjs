// Loaded before dynalite: it throws when a client goes away in the middle of a request, which is
// what clients do that are killed. Anything else that is thrown ends it, as ever.
process.on('uncaughtException', error => {
  if (error.code === 'ECONNRESET') return
  console.error(error)
  process.exit(1)
})
