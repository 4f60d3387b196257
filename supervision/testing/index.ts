/** What tests of actors need, and clusters in one process. */
export { MemoryBus } from './memory-bus.ts';
export { MemoryLeases } from './memory-leases.ts';
