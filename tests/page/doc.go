// Package page holds the tests of the live page and of the dashboard's page. A headless Chromium uses them as an
// operator does; plain HTTP requests act as an intruder.
//
// Owner: none; every server and browser is a separate process.
// Start at page_test.go and dashboard_test.go. trial_test.go causes faults, and trial.txt is its record.
// browser_test.go drives the browser over a pipe.
package page
