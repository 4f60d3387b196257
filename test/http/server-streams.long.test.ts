/** Troupe's own server on public streams, as where the version of Node is not known. */
import '../support/own-process.ts'; // All of its process goes by streams.
import { useWires } from '../../transports/wire/wires.ts';
import { conformance } from '../support/http/conformance.ts';
import { failOnLeaks } from '../support/leaks.ts';

failOnLeaks();
useWires('stream');
conformance('own', false);
