/** What tests of actors need, and clusters in one process. */
export { MemoryBus, MemoryLeases, MemoryTimers } from './memory-cluster.ts';
export { ActorProbe as Probe } from './probe.ts';
export { settled, TestSystem, type TestSystemOptions } from './test-system.ts';
