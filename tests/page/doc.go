// Package page holds the tests of the live page: in a headless Chromium, as an operator uses it, and by HTTP, as
// somebody uses it who should not.
//
// Owner: none; every server and browser is a process of its own.
// Start at page_test.go; browser_test.go drives the browser over a pipe.
package page
