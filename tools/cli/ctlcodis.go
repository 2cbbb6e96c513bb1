package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
)

// codisSlots is the number of slots of a Codis product.
const codisSlots = 1024

// A codisSlot is one slot in the form of Codis 3: in its coordinator, or in the list of codis-admin.
//
// Source: Codis 3, the JSON of its models SlotMapping and Slot.
type codisSlot struct {
	ID      *int `json:"id"`
	Group   int  `json:"group_id"`
	Serving int  `json:"backend_addr_group_id"`
	Action  struct {
		State string `json:"state"`
	} `json:"action"`
	From string `json:"migrate_from"`
}

// slotsImport assigns slots to groups according to Codis's own table. A group's name is its number in Codis. No key
// moves.
func slotsImport(c *ctl) error {
	text, err := os.ReadFile(c.args[1])
	if err != nil {
		return err
	}
	groups, err := readCodis(text)
	if err != nil {
		return fmt.Errorf("%s: %w", c.args[1], err)
	}
	list := []object{}
	for slot := 0; slot < codisSlots; {
		last := slot
		for last+1 < codisSlots && groups[last+1] == groups[slot] {
			last++
		}
		if groups[slot] != 0 {
			list = append(list, object{"from": slot, "to": last, "group": strconv.Itoa(groups[slot])})
		}
		slot = last + 1
	}
	if len(list) == 0 {
		return fmt.Errorf("%s: no slot has a group", c.args[1])
	}
	return c.send(http.MethodPost, apiPath("products", c.args[0], "slots"), object{"ranges": list}, c.showSlots)
}

// readCodis returns each slot's group, or 0 for none. The text is an array of slots, or an object with slots as its
// values.
func readCodis(text []byte) (groups [codisSlots]int, err error) {
	var list []codisSlot
	if err := json.Unmarshal(text, &list); err != nil {
		var named map[string]codisSlot
		if json.Unmarshal(text, &named) != nil {
			return groups, fmt.Errorf("it is no table of slots: %w", err)
		}
		for _, s := range named {
			list = append(list, s)
		}
	}
	seen := map[int]bool{}
	for _, s := range list {
		switch {
		case s.ID == nil:
			return groups, errors.New("it has an entry without the id of a slot")
		case *s.ID < 0 || *s.ID >= codisSlots:
			return groups, fmt.Errorf("slot %d is none of Codis's 1,024", *s.ID)
		case seen[*s.ID]:
			return groups, fmt.Errorf("slot %d stands there twice", *s.ID)
		case s.Action.State != "" || s.From != "":
			return groups, fmt.Errorf("slot %d is on its way to another group: let Codis finish that first", *s.ID)
		case s.Group < 0 || s.Serving < 0:
			return groups, fmt.Errorf("slot %d has a negative group", *s.ID)
		}
		seen[*s.ID] = true
		groups[*s.ID] = max(s.Group, s.Serving)
	}
	return groups, nil
}
