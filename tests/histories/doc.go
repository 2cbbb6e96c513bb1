// Package histories records the calls of clients while servers are killed, suspended and cut off. Then models check
// whether any data set explains the replies: no acknowledged write may be lost.
//
// Owner: go test. Start at histories_test.go. site_test.go has the servers, faults_test.go the faults, history_test.go
// the clients' calls, and check_test.go the models.
package histories
