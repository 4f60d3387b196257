/** What tests of actors need, and clusters in one process. */
export { MemoryBus } from './memory-bus.ts';
export { MemoryLeases } from './memory-leases.ts';
export { MemoryTimers } from './memory-timers.ts';
export { ActorProbe as Probe } from './probe.ts';
export { settled } from './settled.ts';
export { TestSystem, type TestSystemOptions } from './test-system.ts';
