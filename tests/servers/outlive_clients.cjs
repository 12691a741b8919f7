// Preload before dynalite to keep it alive when a killed client drops its connection during a
// request. Any other uncaught exception still ends it.
process.on('uncaughtException', error => {
  if (error.code === 'ECONNRESET') return
  console.error(error)
  process.exit(1)
})
