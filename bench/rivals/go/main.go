// Load a delimited file into a DynamoDB table with the AWS SDK for Go v2: goroutines that send
// BatchWriteItem, and one that reads the file. It takes what the rivals in Python take: the file, the
// table, and settings in JSON.
package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"io"
	"log"
	"os"
	"strconv"
	"sync"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

const batchRows = 25

type settings struct {
	Columns     json.RawMessage `json:"columns"`
	Delimiter   string          `json:"delimiter"`
	Header      bool            `json:"header"`
	Concurrency int             `json:"concurrency"`
}

type column struct {
	name, kind string
}

// columns reads names and types in the order of the file, which a map would lose.
func columns(raw json.RawMessage) []column {
	var found []column
	var kinds map[string]string
	if err := json.Unmarshal(raw, &kinds); err != nil {
		log.Fatal(err)
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			log.Fatal(err)
		}
		name, isText := token.(string)
		if !isText {
			continue
		}
		found = append(found, column{name, kinds[name]})
		if _, err := decoder.Token(); err != nil {
			log.Fatal(err)
		}
	}
	return found
}

func item(columns []column, record []string) map[string]types.AttributeValue {
	made := make(map[string]types.AttributeValue, len(columns))
	for index, cell := range record {
		if cell == "" {
			continue
		}
		switch columns[index].kind {
		case "N":
			made[columns[index].name] = &types.AttributeValueMemberN{Value: cell}
		case "BOOL":
			value, err := strconv.ParseBool(cell)
			if err != nil {
				log.Fatal(err)
			}
			made[columns[index].name] = &types.AttributeValueMemberBOOL{Value: value}
		default:
			made[columns[index].name] = &types.AttributeValueMemberS{Value: cell}
		}
	}
	return made
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 4 {
		log.Fatal("usage: rival FILE TABLE SETTINGS")
	}
	var given settings
	if err := json.Unmarshal([]byte(os.Args[3]), &given); err != nil {
		log.Fatal(err)
	}
	named, table := columns(given.Columns), os.Args[2]
	loaded, err := config.LoadDefaultConfig(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	client := dynamodb.NewFromConfig(loaded)
	file, err := os.Open(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	batches := make(chan []types.WriteRequest, 2*given.Concurrency)
	var writers sync.WaitGroup
	for range given.Concurrency {
		writers.Add(1)
		go func() {
			defer writers.Done()
			for batch := range batches {
				left := map[string][]types.WriteRequest{table: batch}
				for len(left) > 0 {
					answer, err := client.BatchWriteItem(
						context.Background(), &dynamodb.BatchWriteItemInput{RequestItems: left},
					)
					if err != nil {
						log.Fatal(err)
					}
					left = answer.UnprocessedItems
				}
			}
		}()
	}
	reader := csv.NewReader(file)
	reader.Comma = rune(given.Delimiter[0])
	reader.FieldsPerRecord = len(named)
	reader.ReuseRecord = true
	if given.Header {
		if _, err := reader.Read(); err != nil {
			log.Fatal(err)
		}
	}
	batch := make([]types.WriteRequest, 0, batchRows)
	for {
		record, err := reader.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			log.Fatal(err)
		}
		put := &types.PutRequest{Item: item(named, record)}
		batch = append(batch, types.WriteRequest{PutRequest: put})
		if len(batch) == batchRows {
			batches <- batch
			batch = make([]types.WriteRequest, 0, batchRows)
		}
	}
	if len(batch) > 0 {
		batches <- batch
	}
	close(batches)
	writers.Wait()
}
