package client

// AckLevel returns the number of replicas that must have the data that the client's replies show. Any goroutine. It
// implements protocol.Leveler.
func (c *Client) AckLevel() uint8 { return uint8(c.ackLevel.Load()) }

// SetAckLevel sets AckLevel. Turn only.
func (c *Client) SetAckLevel(level uint8) {
	c.ackLevel.Store(uint32(level))
	if c.Flags &^= Acks; level > 0 {
		c.Flags |= Acks
	}
}
