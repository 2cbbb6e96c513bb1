// Package histories records the calls of clients while servers are killed, suspended and cut off, and while their disks
// are slow or full. Then models check whether any data set explains the replies. No acknowledged write may be lost, and
// reads with a write are linearizable. Other tests here have sites that do lose writes, and the models find it.
//
// It takes a minute for each unit of SPINDLE_TEST_SCALE: 20 of them in `make soak`.
//
// Clocks are not moved here. A namespace of the kernel may have its own monotonic clock, at a fixed distance, but not
// its own time of day. A stopped process sees a jump of all its clocks when it continues. Steps of a clock alone are
// played by TestTilt of package sentinel and by the simulation of cluster/state. Their clocks are handed in.
//
// Owner: go test.
// Start at histories_test.go. site_test.go has the servers, faults_test.go the faults, history_test.go the clients'
// calls, load_test.go what writes beside them, and check_test.go the models.
package histories
