// Package pushes compares a real server with a model of everything that clients get without a request: invalidations of
// client-side caching, and pub/sub messages. Each connection must receive exactly the model's replies and pushes, in
// the model's order.
//
// Owner: tests; nothing imports it.
// Start at model_test.go, which models what a server must send. play_test.go plays random clients against it;
// cache_test.go runs caches concurrently.
package pushes
