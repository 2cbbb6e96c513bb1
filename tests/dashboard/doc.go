// Package dashboard has black-box tests of dashboards with real processes: etcd, data servers, dashboards.
//
// Owner: each test starts its own processes.
// Start at site_test.go.
package dashboard
