package mockserver

// FaultNames are the faults there are, for the check of docs/mock.md.
var FaultNames = faultNames

// FaultFields are the fields a fault needs and those it takes, besides the limits.
func FaultFields(name string) (needs, takes []string) { return faultNeeds[name], faultTakes[name] }

// FaultLimits are the fields every fault takes.
var FaultLimits = faultLimits
