// Package pubsub checks a real server's promises of pub/sub with many concurrent clients. A subscribed client gets
// every message once and in order. Each connection gets replies and messages in the order in which the server produced
// them.
//
// Owner: tests; nothing imports it.
package pubsub
