package store

import "context"

// Peers returns the registered proxies of the product that reach the store, ordered by ID. It skips entries that are
// damaged or unknown, because Follow reports them.
func (c *Client) Peers(ctx context.Context) (peers []Proxy, err error) {
	present, _, err := c.store.List(ctx, KeyOf(c.prefix, c.product, "present", ""))
	if err != nil {
		return nil, err
	}
	instances := map[string]string{}
	for _, e := range present {
		var p Presence
		if Decode(e, &p) == nil {
			instances[p.ID] = p.Instance
		}
	}
	registered, _, err := c.store.List(ctx, KeyOf(c.prefix, c.product, "proxies", ""))
	if err != nil {
		return nil, err
	}
	for _, e := range registered {
		var p Proxy
		if Decode(e, &p) != nil {
			continue
		}
		if instance, is := instances[p.ID]; is && instance == p.Instance {
			peers = append(peers, p)
		}
	}
	return peers, nil
}
