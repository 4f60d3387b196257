import { engineConformance } from '../support/engine/conformance.ts';
import { kubernetesUnderTest } from '../support/engine/kubernetes-under-test.ts';
import { tinyImageMissing } from '../support/engine/tiny-image.ts';
import { skipWithoutKubernetes } from '../support/kubernetes/programs.ts';

engineConformance('kubernetes, the first half', () => kubernetesUnderTest({ perl: true }), {
  skip: tinyImageMissing() ?? skipWithoutKubernetes(),
  share: 'first',
  // A cluster before 1.30 cannot end the input of a command.
  parts: { forgetsStopped: true, oneOutput: true, endlessInput: true, perl: true },
});
