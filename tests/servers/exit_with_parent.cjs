// Loaded before a server: ends it when its standard input closes, which is when its parent ends,
// however that ends.
process.stdin.on('end', () => process.exit(0)).on('error', () => process.exit(0)).resume()
