// Preload before dynalite to give it BatchExecuteStatement for INSERT INTO "table" VALUE {'a':?,...}
// with parameters. Every other statement fails with ValidationError, as an unknown one does on AWS.
// The environment variable DYNALITE is the path of dynalite's package.
const fs = require('fs')
const Module = require('module')
const path = require('path')

const INDEX = fs.realpathSync(path.join(process.env.DYNALITE, 'index.js'))
const OPERATION = 'batchExecuteStatement'
const MOST_STATEMENTS = 25
const load = name => require(path.join(process.env.DYNALITE, name))

// dynalite keeps its operations in a list of its own, and loads each from a file of that name.
const compile = Module._extensions['.js']
Module._extensions['.js'] = (module, filename) => {
  if (filename !== INDEX) return compile(module, filename)
  const source = fs.readFileSync(filename, 'utf8')
  const known = source.replace("'BatchWriteItem',", "'BatchWriteItem', 'BatchExecuteStatement',")
  if (known === source) throw new Error('this version of dynalite has no list of operations')
  module._compile(known, filename)
}
const loadModule = Module._load
Module._load = function (request, ...more) {
  if (request === './actions/' + OPERATION) return batchExecuteStatement
  if (request === './validations/' + OPERATION) return {types: TYPES, custom: checkCount}
  return loadModule.call(this, request, ...more)
}

const TYPES = {
  ReturnConsumedCapacity: {type: 'String', enum: ['INDEXES', 'TOTAL', 'NONE']},
  Statements: {
    type: 'List',
    notNull: true,
    lengthGreaterThanOrEqual: 1,
    children: {
      type: 'ValueStruct<BatchStatementRequest>',
      children: {
        Statement: {type: 'String', notNull: true, lengthGreaterThanOrEqual: 1, lengthLessThanOrEqual: 8192},
        Parameters: {type: 'List', lengthGreaterThanOrEqual: 1, children: 'AttrStruct<ValueStruct>'},
        ConsistentRead: 'Boolean',
        ReturnValuesOnConditionCheckFailure: {type: 'String', enum: ['ALL_OLD', 'NONE']},
      },
    },
  },
}

function checkCount (data) {
  if (data.Statements.length > MOST_STATEMENTS) {
    return `Member must have length less than or equal to ${MOST_STATEMENTS}`
  }
  // checkTypes does not look into the members of a list.
  const given = data.Statements.map(each => each.Statement)
  if (given.some(text => typeof text !== 'string' || text.length < 1 || text.length > 8192)) {
    return 'Member must have length less than or equal to 8192, and greater than or equal to 1'
  }
}

class Refused extends Error {}

// Reads one statement letter by letter.
class Reader {
  constructor (text) {
    this.text = text
    this.at = 0
  }

  next () {
    while (/^[ \t\r\n]$/.test(this.text.charAt(this.at))) this.at++
    return this.text.charAt(this.at)
  }

  refuse () {
    throw new Refused(`Statement wasn't well formed, can't be processed: at ${this.at}`)
  }

  word (word) {
    this.next()
    if (this.text.substr(this.at, word.length).toUpperCase() !== word) this.refuse()
    this.at += word.length
  }

  // A quotation mark within a name is written twice.
  quoted (mark) {
    if (this.next() !== mark) this.refuse()
    let found = ''
    for (this.at++; this.at < this.text.length; this.at++) {
      const letter = this.text.charAt(this.at)
      if (letter === mark && this.text.charAt(++this.at) !== mark) return found
      found += letter
    }
    return this.refuse()
  }
}

function readInsert (statement, parameters) {
  const reader = new Reader(statement)
  const names = []
  reader.word('INSERT')
  reader.word('INTO')
  const table = reader.quoted('"')
  reader.word('VALUE')
  reader.word('{')
  do {
    if (names.length) reader.word(',')
    names.push(reader.quoted("'"))
    reader.word(':')
    reader.word('?')
  } while (reader.next() !== '}')
  reader.word('}')
  if (reader.next()) reader.refuse()
  if (names.length !== parameters.length) {
    throw new Refused("Number of parameters in request and statement don't match.")
  }
  if (new Set(names).size < names.length) throw new Refused('Two members of the item have one name')
  // Without a prototype, so that no name means anything.
  const item = Object.assign(Object.create(null), Object.fromEntries(names.map((name, i) => [name, parameters[i]])))
  return {table, item}
}

function batchExecuteStatement (store, data, cb) {
  const db = load('db')
  const validations = load('validations')
  const putItem = load('actions/putItem')
  const keys = new Set()
  const results = data.Statements.map(() => ({}))
  const units = {}
  const puts = []
  let waiting = data.Statements.length

  const fail = (result, code, message, name) => {
    Object.assign(result, {Error: {Code: code, Message: message}})
    if (name) result.TableName = name
  }
  const bill = (name, size) => { units[name] = (units[name] || 0) + size }

  // All statements are checked before the first is carried out.
  data.Statements.forEach((each, index) => check(each, results[index], put => {
    if (put) puts.push(put)
    if (--waiting) return
    if (keys.size < puts.length) {
      return cb(db.validationError('Provided list of item keys contains duplicates'))
    }
    waiting = puts.length
    if (!waiting) return answer()
    puts.forEach(carryOut)
  }))

  function check (each, result, done) {
    let insert
    try {
      insert = readInsert(each.Statement, each.Parameters || [])
    } catch (error) {
      if (!(error instanceof Refused)) throw error
      fail(result, 'ValidationError', error.message)
      return done()
    }
    store.getTable(insert.table, (error, table) => {
      if (error) {
        const code = /ResourceNotFound/.test(error.body.__type) ? 'ResourceNotFound' : 'ValidationError'
        fail(result, code, error.body.message)
        return done()
      }
      const values = Object.values(insert.item)
      const refusal = values.map(validations.validateAttributeValue).find(Boolean) ||
        (db.itemSize(insert.item) > store.options.maxItemSize
          ? 'Item size has exceeded the maximum allowed size' : undefined)
      const invalid = refusal ? db.validationError(refusal) : db.validateItem(insert.item, table)
      if (invalid) {
        fail(result, 'ValidationError', invalid.body.message, insert.table)
        return done()
      }
      keys.add(JSON.stringify([insert.table, db.createKey(insert.item, table)]))
      const hash = table.KeySchema[0].AttributeName
      done({...insert, result, Expected: {[hash]: {Exists: false}}})
    })
  }

  function carryOut ({table, item, result, Expected}) {
    const asked = {TableName: table, Item: item, Expected, ReturnConsumedCapacity: 'TOTAL'}
    putItem(store, asked, (error, made) => {
      if (error && !error.statusCode) return cb(error)
      result.TableName = table
      if (!error) {
        bill(table, made.ConsumedCapacity.CapacityUnits)
      } else if (/ConditionalCheckFailed/.test(error.body.__type)) {
        bill(table, db.capacityUnits(item, false))
        fail(result, 'DuplicateItem', 'Duplicate primary key exists in table', table)
      } else {
        fail(result, 'ValidationError', error.body.message, table)
      }
      if (!--waiting) answer()
    })
  }

  function answer () {
    const made = {Responses: results}
    if (['TOTAL', 'INDEXES'].includes(data.ReturnConsumedCapacity)) {
      made.ConsumedCapacity = Object.entries(units)
        .map(([TableName, CapacityUnits]) => ({TableName, CapacityUnits}))
    }
    cb(null, made)
  }
}
