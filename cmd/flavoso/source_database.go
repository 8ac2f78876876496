package main

import (
	"context"
	"errors"

	"github.com/flavoso/flavoso-go/outbox"
)

func (f *outboxFlags) connect(ctx context.Context, dsn string) (outbox.Engine, func() error, error) {
	return nil, nil, errors.New("this build opens outbox files only")
}
