// Preload before dynalite to support ReturnValuesOnConditionCheckFailure: with ALL_OLD the error
// of a failed condition contains the existing item, as on AWS.
// The environment variable DYNALITE is the path of dynalite's package.
const path = require('path')
const load = name => require(path.join(process.env.DYNALITE, name))

const NAME = 'ReturnValuesOnConditionCheckFailure'
const db = load('db')
const checkConditional = db.checkConditional

for (const action of ['putItem', 'updateItem', 'deleteItem']) {
  load('validations/' + action).types[NAME] = {type: 'String', enum: ['ALL_OLD', 'NONE']}
}

db.checkConditional = (data, existingItem) => {
  const error = checkConditional(data, existingItem)
  if (error != null && data[NAME] == 'ALL_OLD' && existingItem != null) {
    error.body.Item = existingItem
  }
  return error
}
