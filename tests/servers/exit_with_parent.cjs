// Preload before a server to end it when its standard input closes. The system closes that pipe
// when the parent process ends, SIGKILL included.
process.stdin.on('end', () => process.exit(0)).on('error', () => process.exit(0)).resume()
