// Command goredis counts at one address with go-redis, by several goroutines, and asks for maintenance notifications.
// It prints every error that reaches the application. Its argument is the address.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

func main() {
	client := redis.NewClient(&redis.Options{Addr: os.Args[1], Protocol: 3,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeEnabled}})
	ctx := context.Background()
	for i := range 4 {
		go func() {
			for ; ; time.Sleep(2 * time.Millisecond) {
				if err := client.Incr(ctx, fmt.Sprint("counter:", i)).Err(); err != nil {
					fmt.Println("error:", err)
				}
			}
		}()
	}
	select {}
}
