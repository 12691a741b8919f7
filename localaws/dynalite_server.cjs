// Serve DynamoDB by dynalite on a free port of the host that is the argument, and print the port.
// The environment variable DYNALITE is the path of dynalite's package.
// The process ends when its standard input closes, so it cannot outlive its parent. ECONNRESET and
// EPIPE are ignored because dynalite would otherwise crash when a client disconnects during a
// request. Tables are created at once: AWS's creation delay is not emulated.
require('./show_items.cjs')
require('./insert_statements.cjs')

// The checks of browser_guard.py: web pages are refused before dynalite sees their requests.
const guard = server => {
  const refusal = ({method, headers}) => {
    if (method === 'OPTIONS') return 'OPTIONS requests come from browsers'
    for (const name of ['origin', 'referer', 'sec-fetch-site'])
      if (name in headers) return `the header ${name} comes from a browser`
    const port = server.address().port
    const names = ['127.0.0.1', 'localhost'].map(name => port === 80 ? name : `${name}:${port}`)
    if (!names.includes((headers.host || '').toLowerCase()))
      return `the Host is ${headers.host || 'missing'}, and must be ${names.join(' or ')}`
  }
  const [serve] = server.listeners('request')
  server.removeAllListeners('request').on('request', (request, response) => {
    const why = refusal(request)
    if (why === undefined) return serve(request, response)
    request.resume()
    response.writeHead(403, {'Content-Type': 'application/json', 'Connection': 'close'})
    response.end(JSON.stringify({__type: 'AccessDeniedException', message: `localaws: ${why}`}))
  })
  return server
}

process.stdin.on('close', () => process.exit()).resume()
process.on('uncaughtException', error => {
  if (error.code === 'ECONNRESET' || error.code === 'EPIPE') return
  console.error(error)
  process.exit(1)
})
const options = {createTableMs: 0, deleteTableMs: 0, updateTableMs: 0}
const server = guard(require(process.env.DYNALITE)(options))
server.listen(0, process.argv[2], () => console.log(server.address().port))
