// Command goredis uses go-redis as it stands, as a client of one server: `goredis HOST:PORT`. It prints ok, or what was
// wrong.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"sync"

	"github.com/redis/go-redis/v9"
)

var ctx = context.Background()

func main() {
	for _, protocol := range []int{2, 3} {
		c := redis.NewClient(&redis.Options{Addr: os.Args[1], Protocol: protocol, PoolSize: 10})
		name := "go" + strconv.Itoa(protocol)
		for _, step := range []func(*redis.Client, string) error{pool, pipeline, transaction, script, messages, others} {
			if err := step(c, name); err != nil {
				fmt.Println(name, err)
				os.Exit(1)
			}
		}
		c.Close()
	}
	fmt.Println("ok")
}

func same(got any, err error, want any) error {
	if err == nil && !reflect.DeepEqual(got, want) {
		err = fmt.Errorf("%v; want %v", got, want)
	}
	return err
}

// pool uses many connections at once.
func pool(c *redis.Client, name string) error {
	failed := make(chan error, 8)
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for i := range 50 {
				key := fmt.Sprintf("%s:%d:%d", name, n, i)
				if err := c.Set(ctx, key, i, 0).Err(); err != nil {
					failed <- err
					return
				}
				got, err := c.Get(ctx, key).Int()
				if err := same(got, err, i); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	all.Wait()
	close(failed)
	return <-failed
}

func pipeline(c *redis.Client, name string) error {
	p := c.Pipeline()
	for i := range 300 {
		p.Set(ctx, fmt.Sprintf("%s:p:%d", name, i), i, 0)
	}
	got := p.MGet(ctx, name+":p:1", name+":p:2", name+":p:299")
	_, err := p.Exec(ctx)
	return same(got.Val(), err, []any{"1", "2", "299"})
}

func transaction(c *redis.Client, name string) error {
	key := "{" + name + "}n"
	count := func(tx *redis.Tx) error {
		_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.Incr(ctx, key)
			p.Incr(ctx, key)
			return nil
		})
		return err
	}
	if err := c.Watch(ctx, count, key); err != nil {
		return err
	}
	lost := c.Watch(ctx, func(tx *redis.Tx) error {
		c.Incr(ctx, key)
		return count(tx)
	}, key)
	if !errors.Is(lost, redis.TxFailedErr) {
		return fmt.Errorf("EXEC after a watched key has changed: %v", lost)
	}
	got, err := c.Get(ctx, key).Int()
	return same(got, err, 3)
}

func script(c *redis.Client, name string) error {
	add := redis.NewScript("return redis.call('incrby', KEYS[1], ARGV[1])")
	for i := range 2 {
		got, err := add.Run(ctx, c, []string{name + ":script"}, 5).Int()
		if err := same(got, err, 5+5*i); err != nil {
			return err
		}
		c.ScriptFlush(ctx)
	}
	return nil
}

func messages(c *redis.Client, name string) error {
	sub := c.Subscribe(ctx, name+":news")
	defer sub.Close()
	if _, err := sub.Receive(ctx); err != nil {
		return err
	}
	got, err := c.Publish(ctx, name+":news", "hello").Result()
	if err := same(got, err, int64(1)); err != nil {
		return err
	}
	m, err := sub.ReceiveMessage(ctx)
	if err != nil {
		return err
	}
	return same(m.Payload, nil, "hello")
}

func others(c *redis.Client, name string) error {
	c.RPush(ctx, name+":list", "a")
	got, err := c.BLPop(ctx, 0, name+":list").Result()
	if err := same(got, err, []string{name + ":list", "a"}); err != nil {
		return err
	}
	found := map[string]bool{}
	for keys := c.Scan(ctx, 0, name+":0:*", 100).Iterator(); keys.Next(ctx); {
		found[keys.Val()] = true
	}
	if err := same(len(found), nil, 50); err != nil {
		return err
	}
	c.HSet(ctx, name+":hash", "a", 1, "b", 2)
	hash, err := c.HGetAll(ctx, name+":hash").Result()
	return same(hash, err, map[string]string{"a": "1", "b": "2"})
}
