// Package backup holds black-box tests of spindle backup: real servers, and stores in folders and in S3.
//
// Owner: go test. It starts its processes in new folders.
package backup
