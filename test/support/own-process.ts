/**
 * A test file that imports this runs in a process of its own, not after others in one that they share: it changes something of its
 * process, or measures it. Say why beside the import.
 */
export {};
