// Package pubsub holds a real server to what pub/sub promises many clients at once: nothing lost, doubled or out of
// order for who is subscribed, and replies and messages of a connection in the order in which they were decided.
//
// Owner: tests; nothing imports it.
package pubsub
