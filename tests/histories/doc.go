// Package histories notes the calls of clients while servers are killed, stopped and cut off. Afterwards models say
// whether any data set explains the replies: no acknowledged write is lost.
//
// Owner: go test. Start at histories_test.go. site_test.go has the servers, faults_test.go what happens to them,
// history_test.go what clients saw, and check_test.go the models.
package histories
