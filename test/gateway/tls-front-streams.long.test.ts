/** The whole of tls-front.test.ts without the handles below sockets. */
import '../support/own-process.ts'; // All of its process goes by streams.
import { useWires } from '../../transports/wire/wires.ts';

useWires('stream');
await import('./tls-front.test.ts');
