package pgidem_test

const childEnv = "PGIDEM_TEST_CHILD"

func child() {}
