// Command goredis is a client of a cluster with the unmodified go-redis: `goredis ADDR[,ADDR…] PREFIX`.
//
// Each worker appends 1, 2, 3 … to its list until the standard input ends. A line on the input asks for a report:
// how far each list is, and which numbers got an error instead of a reply.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

type list struct {
	Last    int
	Unacked []int
}

func main() {
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: strings.Split(os.Args[1], ",")})
	var mu sync.Mutex
	lists, errors := map[string]*list{}, map[string]int{}
	for i := range 16 {
		key := fmt.Sprintf("%s:%d", os.Args[2], i)
		l := &list{}
		lists[key] = l
		go func() {
			for n := 1; ; n++ {
				err := client.RPush(context.Background(), key, n).Err()
				mu.Lock()
				l.Last = n
				if err != nil {
					l.Unacked = append(l.Unacked, n)
					errors[err.Error()]++
				}
				mu.Unlock()
				time.Sleep(5 * time.Millisecond)
			}
		}()
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		mu.Lock()
		_ = json.NewEncoder(os.Stdout).Encode(map[string]any{"Lists": lists, "Errors": errors})
		mu.Unlock()
	}
}
