// Command goredis counts at the primary that Sentinel names, and reads at a replica, with go-redis. Its arguments
// are the Sentinels' ports.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

func main() {
	options := redis.FailoverOptions{MasterName: "m", DialTimeout: 2 * time.Second, ReadTimeout: 2 * time.Second}
	for _, port := range os.Args[1:] {
		options.SentinelAddrs = append(options.SentinelAddrs, "127.0.0.1:"+port)
	}
	primary := redis.NewFailoverClient(&options)
	ofReplicas := options
	ofReplicas.ReplicaOnly = true
	replica := redis.NewFailoverClient(&ofReplicas)
	ctx := context.Background()
	for ; ; time.Sleep(20 * time.Millisecond) {
		if err := primary.Incr(ctx, "goredis").Err(); err != nil {
			fmt.Println(err)
		} else if err := replica.Get(ctx, "goredis").Err(); err != nil {
			fmt.Println(err)
		} else if err := primary.Incr(ctx, "goredis:read").Err(); err != nil {
			fmt.Println(err)
		}
	}
}
