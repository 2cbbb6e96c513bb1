// Package pushes holds a real server to a model of all that clients get without asking for it then: invalidations of
// client-side caching and messages of pub/sub. Each connection has to bring exactly the model's replies and pushes, in
// the model's order.
//
// Owner: tests; nothing imports it.
// Start at model_test.go, which says what a server has to send; play_test.go plays random clients against it,
// cache_test.go lets caches work at once.
package pushes
